-- Types that come with this version, and what dumps carry of types.

-- include sql/install/service/seeded_types.sql
SELECT claims.seed_types('bucket', '{14}', '{SERVICE_DESK_PROJECT_KEY_ADDRESS_SLUG}');
SELECT claims.seed_types('source', '{15}', '{RAILS_TABLE_JIRA_CONNECT_INSTALLATIONS}');
