"""The link to the ground: space packets, what is sent first, commands, and the process that does it all."""
