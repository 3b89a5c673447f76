"""Who may do what: roles by stable platform id, and the matrix of role, chat type and risk."""
