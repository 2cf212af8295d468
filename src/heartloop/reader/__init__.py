"""The learned reader of a reply: features, models, aspects, and what they do to a person."""
