"""What people look at: GeoTIFF, GeoJSON, figures, reports."""
