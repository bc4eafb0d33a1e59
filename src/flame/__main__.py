"""`python -m flame`, and `torchrun -m flame train` for many processes."""

from flame.cli import main

if __name__ == "__main__":
    main()
