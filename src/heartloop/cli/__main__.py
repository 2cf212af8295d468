"""`python -m heartloop.cli`."""

from heartloop.cli.main import main

if __name__ == "__main__":
    main()
