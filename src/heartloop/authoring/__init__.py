"""New scenarios written and audited by models, checks on written scenarios, importers of what others released."""
