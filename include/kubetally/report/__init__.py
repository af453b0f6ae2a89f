"""Reports: the Costs page, its JSON and downloads, and the statements."""
