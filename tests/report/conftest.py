"""The sample company's warehouse for the tests of this folder."""

from sample_company import at_company, company  # noqa: F401
