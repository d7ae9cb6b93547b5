-- The functions of every save take the rights of the tables' owner only where they run a statement.

ALTER FUNCTION claims.commit_update(bigint, uuid) SECURITY INVOKER RESET search_path;
ALTER FUNCTION claims.commit_unflushed(bigint, uuid) SECURITY INVOKER RESET search_path;
ALTER FUNCTION claims.rollback_update(bigint, uuid) SECURITY INVOKER RESET search_path;
ALTER FUNCTION claims.get_record(text, text) SECURITY INVOKER RESET search_path;
ALTER FUNCTION claims.require_naming(text, text[], text[]) SECURITY INVOKER RESET search_path;
