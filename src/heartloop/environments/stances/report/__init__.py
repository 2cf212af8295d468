"""What this environment adds to the report: its panel, its part of the page of meanings, published results."""
