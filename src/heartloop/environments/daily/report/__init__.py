"""What this environment adds to the report: its panel and its part of the page of meanings."""
