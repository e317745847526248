"""Writes the generated files of `docs/`, and removes pages and pictures of parts that are gone."""

from __future__ import annotations

from .site import DOCS, files


def main() -> None:
    """Write what differs."""
    texts = files()
    for name, text in texts.items():
        path = DOCS / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(name)
    for path in (*DOCS.glob("pictures/**/*.svg"), *DOCS.glob("reference/*.md")):
        if path.relative_to(DOCS).as_posix() not in texts:
            path.unlink()


if __name__ == "__main__":
    main()
