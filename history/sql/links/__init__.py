"""How far the links of SQL Remote got, kept in the same database."""
