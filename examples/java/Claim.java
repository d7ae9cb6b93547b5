/** A name of a user, and the user's row. `bucket` is its type at the shared database. */
public record Claim(String bucket, String name, long userId) {}
