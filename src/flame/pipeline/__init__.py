"""Where rooms meet: scene files to detections to products, simulated scenes to data sets."""
