"""The torch-free flight runtime: model package, inference session, tile stream, profiling."""
