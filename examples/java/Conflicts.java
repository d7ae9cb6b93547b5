import java.util.List;

/** The names of a save that cannot be claimed (op "create") or given up (op "destroy"), with the reasons. */
public class Conflicts extends Exception {
    public record Conflict(String op, String bucket, String reason, boolean retryable) {}

    public final List<Conflict> found;

    public Conflicts(List<Conflict> found) {
        super("conflicting names: " + found);
        this.found = found;
    }

    public boolean areTemporary() {
        return found.stream().allMatch(Conflict::retryable);
    }
}
