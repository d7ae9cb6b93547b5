import java.sql.DriverManager;
import java.time.Duration;

/**
 * Saves users whose names are unique among all cells: sign-up USERNAME EMAIL, rename ID FROM TO, recover.
 * CELL_URL and SHARED_URL have the addresses of the two databases (jdbc:postgresql:...), CELL_ID this cell's number.
 */
public class Main {
    public static void main(String[] arguments) throws Exception {
        try (var own = DriverManager.getConnection(System.getenv("CELL_URL")); var shared = DriverManager.getConnection(System.getenv("SHARED_URL"))) {
            var cell = new Cell(Long.parseLong(System.getenv("CELL_ID")), own, shared, Duration.ofSeconds(2));
            var users = new Users(cell, own);
            switch (String.join(" ", arguments.length > 0 ? arguments[0] : "", String.valueOf(arguments.length))) {
                case "sign-up 3" -> System.out.println("saved, id " + users.signUp(arguments[1], arguments[2]));
                case "rename 4" -> users.rename(Long.parseLong(arguments[1]), arguments[2], arguments[3]);
                case "recover 1" -> cell.recover();
                default -> System.err.println("usage: sign-up USERNAME EMAIL | rename ID FROM TO | recover");
            }
        } catch (Users.FieldErrors errors) {
            errors.messages.forEach((field, message) -> System.err.println(field + " " + message));
            System.exit(1);
        }
    }
}
