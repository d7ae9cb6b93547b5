-- What instances and back ends are given.

CREATE FUNCTION claims.grant_worker(role_name name) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM claims.require_admin();
    IF grant_worker.role_name IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'role_name must not be null', HINT = 'Name a role.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_worker.role_name) THEN
        RAISE EXCEPTION USING ERRCODE = '42704', MESSAGE = format('role "%s" does not exist', grant_worker.role_name),
            HINT = 'Create the role with CREATE ROLE first.';
    END IF;
    LOCK TABLE claims.audiences IN SHARE ROW EXCLUSIVE MODE;
    PERFORM claims.change_grants(grant_worker.role_name, '{worker}', true);
    EXECUTE format('GRANT SELECT ON claims.expiring_claims, claims.requests TO %I', grant_worker.role_name);
END $$;
