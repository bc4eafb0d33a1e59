"""Shape and type checks on for the whole package while tests run."""

from jaxtyping import install_import_hook

install_import_hook("flame", "beartype.beartype")
