"""``python -m doubtless`` is the command ``doubtless``."""

from triggers.cli import main

if __name__ == "__main__":
    main()
