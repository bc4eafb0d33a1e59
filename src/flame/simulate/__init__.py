"""Surfaces, plumes and sensors: labelled scenes with the truth beside them."""
