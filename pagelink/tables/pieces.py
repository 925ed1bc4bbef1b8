"""One table file read in pieces, with the meaning and the errors of `read_table`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pagelink.tables.files import (
    DELIMITERS,
    NumberKind,
    TableFile,
    TextHeader,
    as_text,
    column_names,
    empty_text,
    file_errors,
    read_header,
    refuse_text,
    text_options,
    without_row_labels,
)
from pagelink.tables.folders import is_feature

PIECE_ROWS = 1 << 18
# A row has to fit into two blocks, as in `read_table`.
PIECE_BYTES = 1 << 24


class TablePieces:
    """A table file that is read from its beginning as often as it is asked for its pieces.

    Further columns of a text file are text in a piece until all pieces have been seen; then
    `further` gives them as what the whole column is.

    Args:
        path: a file that ends in .csv, .tsv or .parquet.
        required: columns that must be there, as for `read_table`.
        optional: columns that are treated likewise if they are there.
        rows: rows of a piece of Parquet; pieces of text are of `PIECE_BYTES`.

    Raises:
        GraphError: the file cannot be read, or its header is wrong.
    """

    def __init__(
        self,
        path: Path,
        required: Sequence[str],
        optional: Sequence[str] = (),
        rows: int = PIECE_ROWS,
    ) -> None:
        self.path = path
        self._known = frozenset((*required, *optional))
        self._rows = rows
        self._delimiter = DELIMITERS.get(path.suffix.lower())
        self._header: TextHeader | None = None
        with file_errors(path, "read"):
            if self._delimiter is None:
                with pa.parquet.ParquetFile(path) as file:
                    schema = without_row_labels(file.schema_arrow.empty_table()).schema
                self.names = column_names(schema.names, str(path), self._known, required)
                self._fields = dict(zip(self.names, schema, strict=True))
            else:
                self._header = read_header(path, self._delimiter, self._known, required)
                self.names = self._header.names
        self._kinds = {name: NumberKind() for name in self.further_names}
        self._missing = dict.fromkeys(self.further_names, False)
        self.num_rows = 0
        """Known when all pieces have been seen."""
        self._seen = False

    @property
    def further_names(self) -> list[str]:
        """The columns that were not asked for."""
        return [name for name in self.names if name not in self._known]

    def pieces(self) -> Iterator[TableFile]:
        """Yield the pieces, known columns as text or, in Parquet, as integers if they are."""
        first = 0
        if self._header is None or self._delimiter is None:
            tables = self._parquet_pieces()
        else:
            tables = self._text_pieces(self._header, self._delimiter)
        with file_errors(self.path, "read"):
            for table in tables:
                piece = TableFile(self.path, table, self._known, first)
                if not self._seen:
                    self._see(piece)
                first += table.num_rows
                yield piece
        self.num_rows, self._seen = first, True

    def further(self, piece: TableFile) -> pa.Table:
        """Return the further columns of a piece as what they are in the whole file."""
        table = piece.further
        if self._header is None:
            return table
        return pa.table({n: self._kinds[n].convert(table[n]) for n in table.column_names})

    def further_schema(self) -> pa.Schema:
        """Return names and types of the further columns."""
        if self._header is None:
            return pa.schema([self._fields[n].with_name(n) for n in self.further_names])
        return pa.schema([(n, self._kinds[n].type) for n in self.further_names])

    def features(self) -> list[str]:
        """Return the further columns that a model can read: all numbers, none missing."""
        kinds = self.further_schema()
        return [n for n in self.further_names if is_feature(
            kinds.field(n).type, self.num_rows, self._missing[n])]  # fmt: skip

    def _see(self, piece: TableFile) -> None:
        for name in self.further_names:
            column = piece.table[name]
            if self._header is not None:
                self._kinds[name].see(column)
                self._missing[name] = self._kinds[name].has_empty
            elif column.null_count:
                self._missing[name] = True

    def _text_pieces(self, header: TextHeader, delimiter: str) -> Iterator[pa.Table]:
        if not header.has_rows:
            yield empty_text(header)
            return
        try:
            options = text_options(header, delimiter, PIECE_BYTES)
            with pa.csv.open_csv(self.path, **options) as reader:
                for batch in reader:
                    if batch.num_rows:
                        yield pa.Table.from_batches([batch]).rename_columns(header.names)
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            refuse_text(self.path, delimiter, error)

    def _parquet_pieces(self) -> Iterator[pa.Table]:
        with pa.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=1 << 20) as file:
            if not file.metadata.num_rows:
                yield self._known_as_text(file.schema_arrow.empty_table())
            for batch in file.iter_batches(self._rows):
                yield self._known_as_text(pa.Table.from_batches([batch]))

    def _known_as_text(self, table: pa.Table) -> pa.Table:
        table = without_row_labels(table).rename_columns(self.names)
        for i, name in enumerate(self.names):
            if name in self._known and not pa.types.is_integer(table[name].type):
                table = table.set_column(i, name, as_text(table[name], name, self.path))
        return table


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of a piece as one array."""
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def as_texts(column: pa.ChunkedArray) -> pa.Array:
    """Return a column of a piece as one array of texts."""
    return one_array(column).cast(pa.string())
