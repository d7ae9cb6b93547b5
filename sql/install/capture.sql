CREATE TABLE claims.claimed_attributes (
    table_name   regclass NOT NULL,
    attribute    name     NOT NULL,
    bucket_type  text     NOT NULL,
    subject_type text     NOT NULL,
    subject_key  name     NOT NULL,
    source_type  text     NOT NULL,
    source_key   name     NOT NULL,
    condition    text,
    PRIMARY KEY (table_name, attribute)
);
