import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class UsersTest {
    // Each run of the tests has names of its own.
    private static final String SUFFIX = "-" + Long.toString(System.nanoTime(), 36);
    private static final String TAKEN = "is taken";

    private Connection own;
    private Connection shared;
    private Connection other;
    private Cell cell;
    private Users users;

    private static Connection connect(String variable) throws SQLException {
        return DriverManager.getConnection(System.getenv(variable));
    }

    private static String name(String text) {
        return text + SUFFIX;
    }

    private static String email(String text) {
        return name(text) + "@example.com";
    }

    @BeforeEach
    void start() throws SQLException {
        own = connect("CELL_URL");
        shared = connect("SHARED_URL");
        other = connect("OTHER_URL");
        cell = new Cell(1, own, shared, Duration.ofMinutes(1));
        users = new Users(cell, own);
    }

    @AfterEach
    void stop() throws SQLException {
        assertEquals("0", text(shared, "SELECT count(*) FROM claims.list_leases(1)"));
        for (var connection : List.of(own, shared, other)) connection.close();
    }

    /** The first column of the first row, as text; "none" without a row. */
    private static String text(Connection connection, String sql, Object... arguments) throws SQLException {
        try (var statement = connection.prepareStatement(sql)) {
            for (int n = 0; n < arguments.length; n++) statement.setObject(n + 1, arguments[n]);
            try (var rows = statement.executeQuery()) {
                return rows.next() ? rows.getString(1) : "none";
            }
        }
    }

    private String owner(String bucket, String name) throws SQLException {
        return text(shared, "SELECT cell_id || ' ' || status FROM claims.get_record(?, ?)", bucket, name);
    }

    /** Leases a name for cell 2, and returns the lease. */
    private String otherBegins(String bucket, String name) throws SQLException {
        return text(other, """
            SELECT claims.begin_update(2, jsonb_build_array(jsonb_build_object('bucket', jsonb_build_object('type', ?, 'value', ?),
                'subject', '{"type": "USER", "id": 1}'::jsonb, 'source', '{"type": "RAILS_TABLE_USERS", "id": 1}'::jsonb)))""", bucket, name);
    }

    private void otherHas(String bucket, String name) throws SQLException {
        text(other, "SELECT claims.commit_update(2, ?::uuid)", otherBegins(bucket, name));
    }

    private Map<String, String> refused(String username, String email) {
        return assertThrows(Users.FieldErrors.class, () -> users.signUp(username, email)).messages;
    }

    @Test
    void signUpAndRename() throws Exception {
        long id = users.signUp(name("ada"), email("ada"));
        users.rename(id, name("ada"), name("countess"));
        assertEquals("none", owner("USERNAMES", name("ada")));
        assertEquals("1 ACTIVE", owner("USERNAMES", name("countess")));
        assertEquals("1 ACTIVE", owner("EMAILS", email("ada")));
        assertEquals(Long.toString(id), text(own, "SELECT id FROM users WHERE username = ?", name("countess")));
    }

    @Test
    void takenNamesAreErrorsOfTheirFields() throws Exception {
        otherHas("EMAILS", email("bob"));
        assertEquals(Map.of("email", TAKEN), refused(name("bob"), email("bob")));
        otherHas("USERNAMES", name("eve"));
        assertEquals(Map.of("email", TAKEN, "username", TAKEN), refused(name("eve"), email("bob")));
        assertEquals("none", owner("USERNAMES", name("bob")));
        assertEquals("0", text(own, "SELECT count(*) FROM users WHERE username = ?", name("bob")));
    }

    @Test
    void busyNameIsWaitedFor() throws Exception {
        String lease = otherBegins("USERNAMES", name("dan"));
        users = new Users(new Cell(1, own, shared, Duration.ZERO), own);
        assertEquals(Map.of("username", "is being saved by somebody else: try again"), refused(name("dan"), email("dan")));

        users = new Users(cell, own);
        var given = CompletableFuture.supplyAsync(() -> {
            try {
                return text(other, "SELECT pg_sleep(0.2), claims.rollback_update(2, ?::uuid)", lease);
            } catch (SQLException error) {
                throw new IllegalStateException(error);
            }
        });
        users.signUp(name("dan"), email("dan"));
        given.get();
        assertEquals("1 ACTIVE", owner("USERNAMES", name("dan")));
    }

    @Test
    void rowThatCannotBeSavedLeavesItsNamesFree() throws Exception {
        // A row from before claims.
        text(own, "INSERT INTO users (username, email) VALUES (?, ?) RETURNING id", name("old"), email("old"));
        assertEquals(Map.of("email", TAKEN), refused(name("new"), email("old")));
        assertEquals("none", owner("USERNAMES", name("new")));
        text(own, "DELETE FROM users WHERE username = ? RETURNING id", name("old"));
    }

    // Without its connection the program can do no more than if it had crashed.
    @Test
    void crashBetweenTheCommits() throws Exception {
        cell.save(List.of(new Claim("USERNAMES", name("crash"), 1001), new Claim("EMAILS", email("crash"), 1001)), List.of(), connection -> {
            text(connection, "INSERT INTO users (id, username, email) VALUES (1001, ?, ?) RETURNING id", name("crash"), email("crash"));
            shared.close();
        });
        start();
        assertEquals("1 LEASE_CREATING", owner("USERNAMES", name("crash")));
        cell.recover();
        assertEquals("1 ACTIVE", owner("USERNAMES", name("crash")));
    }

    @Test
    void crashBeforeTheFirstCommit() throws Exception {
        assertThrows(SQLException.class, () -> cell.save(List.of(new Claim("USERNAMES", name("lost"), 1002)), List.of(), connection -> {
            connection.close();
            shared.close();
        }));
        start();
        assertEquals("1 LEASE_CREATING", owner("USERNAMES", name("lost")));
        cell.recover();
        assertEquals("none", owner("USERNAMES", name("lost")));
    }
}
