"""Where everything of a drawing of paths goes: in a wide window, and in a narrow one."""
