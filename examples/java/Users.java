import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** The application: users, whose names and e-mail addresses are unique among all cells. */
public class Users {
    private final Cell cell;
    private final Connection own;

    public Users(Cell cell, Connection own) {
        this.cell = cell;
        this.own = own;
    }

    /** A message for each field of the form that the user has to change. */
    public static class FieldErrors extends Exception {
        public final Map<String, String> messages;

        public FieldErrors(Map<String, String> messages) {
            super(messages.toString());
            this.messages = messages;
        }
    }

    /** Saves a user, and claims both names. Returns the id. */
    public long signUp(String username, String email) throws SQLException, Conflicts, FieldErrors {
        long id = nextId(); // The claims name the row, so its id comes first.
        save(List.of(new Claim("USERNAMES", username, id), new Claim("EMAILS", email, id)), List.of(), own -> {
            try (var insert = own.prepareStatement("INSERT INTO users (id, username, email) VALUES (?, ?, ?)")) {
                insert.setLong(1, id);
                insert.setString(2, username);
                insert.setString(3, email);
                insert.executeUpdate();
            }
        });
        return id;
    }

    /** Gives a user another name: at no moment it has neither, and nobody else can have the new one. */
    public void rename(long id, String from, String to) throws SQLException, Conflicts, FieldErrors {
        save(List.of(new Claim("USERNAMES", to, id)), List.of(new Claim("USERNAMES", from, id)), own -> {
            try (var update = own.prepareStatement("UPDATE users SET username = ? WHERE id = ? AND username = ?")) {
                update.setString(1, to);
                update.setLong(2, id);
                update.setString(3, from);
                if (update.executeUpdate() == 0) throw new SQLException("there is no such user any more");
            }
        });
    }

    private void save(List<Claim> create, List<Claim> destroy, Cell.Change change) throws SQLException, Conflicts, FieldErrors {
        var messages = new TreeMap<String, String>();
        try {
            cell.save(create, destroy, change);
            return;
        } catch (Conflicts conflicts) {
            for (var conflict : conflicts.found) {
                if (!conflict.op().equals("create")) throw conflicts; // The row that gives the name up is not the one that has it.
                messages.put(conflict.bucket().equals("EMAILS") ? "email" : "username",
                    conflict.retryable() ? "is being saved by somebody else: try again" : "is taken");
            }
        } catch (SQLException violation) {
            // A row of this cell that has no claim yet.
            if (!"23505".equals(violation.getSQLState())) throw violation;
            messages.put(violation.getMessage().contains("\"users_email_key\"") ? "email" : "username", "is taken");
        }
        throw new FieldErrors(messages);
    }

    private long nextId() throws SQLException {
        try (var statement = own.createStatement(); var rows = statement.executeQuery("SELECT nextval(pg_get_serial_sequence('users', 'id'))")) {
            rows.next();
            return rows.getLong(1);
        }
    }
}
