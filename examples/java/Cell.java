import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/** One installation of the application: its own database, and the shared one, which keeps the claims of all cells. */
public class Cell {
    private final long id;
    private final Connection own;
    private final Connection shared;
    private final Duration patience;

    /** `patience` is how long a save waits for a name that another session is saving or giving up. */
    public Cell(long id, Connection own, Connection shared, Duration patience) throws SQLException {
        this.id = id;
        this.own = own;
        this.shared = shared;
        this.patience = patience;
        own.setAutoCommit(true);
        shared.setAutoCommit(true); // A lease must be committed there before the cell commits.
    }

    /** The part of a save that writes rows. */
    public interface Change {
        void write(Connection own) throws SQLException;
    }

    /** Runs `change` in a transaction of the cell, in which the names of `create` are claimed and those of `destroy` are given up. */
    public void save(List<Claim> create, List<Claim> destroy, Change change) throws SQLException, Conflicts {
        UUID lease = UUID.randomUUID();
        own.setAutoCommit(false);
        try {
            begin(create, destroy, lease, transactionId());
            try {
                change.write(own);
                call(own, "SELECT claims.track_lease(?)", lease); // Commits with the rows: the proof that they were saved.
            } catch (SQLException error) {
                own.rollback();
                rollBack(lease);
                throw error;
            }
            // After an error here the server may have committed, and only its answer is lost. recover() asks it, and ends the lease accordingly.
            own.commit();
        } finally {
            endTransaction();
        }
        try {
            // The rows are saved, whatever happens from here on. If one of these calls is lost, recover() makes it.
            call(shared, "SELECT claims.commit_update(?, ?)", id, lease);
            call(own, "SELECT claims.forget_leases(ARRAY[?])", lease);
        } catch (SQLException error) {
            System.getLogger("claims").log(System.Logger.Level.WARNING, "left to recovery: " + error.getMessage());
        }
    }

    /**
     * Ends the leases of saves that crashed on their way: with the claims where the cell's transaction committed, else without. Running saves are
     * left alone. Call it every minute, or have the extension's background worker do it.
     */
    public void recover() throws SQLException {
        try (var statement = own.prepareStatement("SELECT orphaned FROM claims.reconcile(?, 'claims_service')")) {
            statement.setLong(1, id);
            try (var rows = statement.executeQuery()) {
                rows.next();
                if (rows.getLong(1) > 0) throw new IllegalStateException("rows were saved whose claims are gone: see the log of the cell's server");
            }
        }
    }

    // The database makes the JSON, so that no name has to be quoted here.
    private static final String LIST = """
        (SELECT coalesce(jsonb_agg(jsonb_build_object(
                  'bucket', jsonb_build_object('type', bucket, 'value', name),
                  'subject', jsonb_build_object('type', 'USER', 'id', user_id),
                  'source', jsonb_build_object('type', 'RAILS_TABLE_USERS', 'id', user_id))), '[]')
           FROM unnest(?::text[], ?::text[], ?::bigint[]) AS claim (bucket, name, user_id))""";
    private static final String BEGIN = """
        SELECT conflict ->> 'op', conflict -> 'bucket' ->> 'type', conflict ->> 'reason', (conflict ->> 'retryable')::boolean
          FROM claims.try_begin_update(?, LIST, LIST, lease_uuid => ?, cell_xid => ?::xid8), jsonb_array_elements(conflicts) AS conflict"""
        .replace("LIST", LIST);

    /** Leases the names. Tries again while all conflicts are temporary, with the same uuid: so the call may be repeated. */
    private void begin(List<Claim> create, List<Claim> destroy, UUID lease, String xid) throws SQLException, Conflicts {
        long until = System.nanoTime() + patience.toNanos();
        while (true) {
            var conflicts = new Conflicts(tryBegin(create, destroy, lease, xid));
            if (conflicts.found.isEmpty()) return;
            if (!conflicts.areTemporary() || System.nanoTime() - until > 0) throw conflicts;
            pause();
        }
    }

    private List<Conflicts.Conflict> tryBegin(List<Claim> create, List<Claim> destroy, UUID lease, String xid) throws SQLException {
        var found = new ArrayList<Conflicts.Conflict>();
        try (var statement = shared.prepareStatement(BEGIN)) {
            int place = 1;
            statement.setLong(place++, id);
            for (var claims : List.of(create, destroy)) {
                statement.setArray(place++, shared.createArrayOf("text", claims.stream().map(Claim::bucket).toArray()));
                statement.setArray(place++, shared.createArrayOf("text", claims.stream().map(Claim::name).toArray()));
                statement.setArray(place++, shared.createArrayOf("bigint", claims.stream().map(Claim::userId).toArray()));
            }
            statement.setObject(place++, lease);
            statement.setString(place, xid);
            try (var rows = statement.executeQuery()) {
                while (rows.next()) {
                    found.add(new Conflicts.Conflict(rows.getString(1), rows.getString(2), rows.getString(3), rows.getBoolean(4)));
                }
            }
        }
        return found;
    }

    private String transactionId() throws SQLException {
        try (var statement = own.createStatement(); var rows = statement.executeQuery("SELECT pg_current_xact_id()::text")) {
            rows.next();
            return rows.getString(1);
        }
    }

    private static void call(Connection connection, String sql, Object... arguments) throws SQLException {
        try (var statement = connection.prepareStatement(sql)) {
            for (int n = 0; n < arguments.length; n++) statement.setObject(n + 1, arguments[n]);
            statement.execute();
        }
    }

    private void rollBack(UUID lease) {
        try {
            call(shared, "SELECT claims.rollback_update(?, ?)", id, lease);
        } catch (SQLException error) {
            // recover() rolls the lease back.
        }
    }

    private void endTransaction() throws SQLException {
        if (own.isClosed()) return;
        own.rollback(); // After COMMIT it does nothing.
        own.setAutoCommit(true);
    }

    private static void pause() {
        try {
            Thread.sleep(50);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
