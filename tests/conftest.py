"""Shape and type checks on for the whole package while tests run, and no test worker dies of bfloat16."""

from jaxtyping import install_import_hook

install_import_hook("flame", "beartype.beartype")

from flame.training.precision import shield_from_amx  # noqa: E402  after the hook

shield_from_amx()  # before torch computes anything in this process
