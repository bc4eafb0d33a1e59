"""Files to scenes: one reader a format, a registry picks."""
