#!/usr/bin/env bash
# The error of a name that is taken in another cell has the form that frameworks read, each in its way: Sequelize, Prisma, Objection, Ecto, Hibernate
# and others. error_forms.py has what each reads.
. "$(dirname "$0")/../applications.bash"

needs_python psycopg2
start_application
in_each_cell make_tables
# A name that must be quoted, and one whose constraint has the name that Ecto expects by default.
in_each_cell sql 'CREATE TABLE "Accounts" (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "User Name" text NOT NULL UNIQUE);
  CREATE TABLE articles (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, slug text NOT NULL UNIQUE)'
for n in 1 2; do
  at "cell$n" "SELECT claims.claim_attribute('\"Accounts\"', 'User Name', 'USERNAMES', 'USER', 'id', 'RAILS_TABLE_USERS'),
    claims.claim_attribute('articles', 'slug', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', constraint_name => 'articles_slug_index')" >/dev/null
done
declare_names
test_application "$PYTHON" "$(dirname "$0")/error_forms.py" -v
