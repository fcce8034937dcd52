"""Documents -> what an index holds of them: chunks, extractions, descriptions, communities and reports."""
