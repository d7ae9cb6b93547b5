-- Who changes a profile keeps out whoever writes names by it.

-- include sql/install/service/hold_naming.sql
