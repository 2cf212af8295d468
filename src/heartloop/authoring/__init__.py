"""New scenarios written and audited by models, and checks on sets of scenarios."""
