"""Benchmarks: common runs, subjects and plots; one folder per benchmark."""
