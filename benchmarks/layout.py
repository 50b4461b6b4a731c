"""Markdown that a command writes: tables, and their place in a file. Holds no figures and no words of a report."""


def table(header, rows):
    """Lay out cells. A column whose name ends in a space holds words and is aligned to the left."""
    aligned = ("---" if name.endswith(" ") else "---:" for name in header)
    return [line(*(name.strip() for name in header)), line(*aligned), *(line(*row) for row in rows)]


def line(*cells):
    """Give a line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def replaced(text, part, name):
    """Put a generated part between the markers ``<!-- name:begin -->`` and ``<!-- name:end -->``.

    Raises
    ------
    ValueError
        One of the markers is not there once.
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"text: expected one {begin} and one {end}, got {text.count(begin)} and {text.count(end)}")
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n{part}\n{end}{rest.partition(end)[2]}"
