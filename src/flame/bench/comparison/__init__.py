"""The paper's comparison: every method, backbone, ablation and figure, each run kept as a small file.

scales     how many tiles of which size, and how long is trained
methods    the rows of every table
tiles      the data set of a scale
runs       trains and judges a method, keeps one JSON a run
latency    the time of every method, interleaved
tables     Markdown, and
figures    PNG, from the kept files alone
"""
