#!/usr/bin/env bash
# The example in Java: examples/java, with JUnit, and each command once. It is compiled with javac alone.
. "$(dirname "$0")/../applications.bash"

command -v javac >/dev/null || skip 'there is no javac'
JARS=/usr/share/java
DRIVER=$JARS/postgresql.jar
JUNIT=$JARS/junit-platform-console-standalone.jar
for jar in "$DRIVER" "$JUNIT"; do [ -e "$jar" ] || skip "there is no $jar"; done
# Debian's standalone jar leaves the jars that it was made of where they are, and finds them there by its manifest.
mkdir "$CLAIMS_TMP/java"
# Whatever the locale: its encoding would decide how the sources are read.
LC_ALL=C javac -Xlint:all,-serial -Werror -d "$CLAIMS_TMP/java" -cp "$DRIVER:$(printf '%s:' $JARS/{junit-jupiter-api,junit-platform-commons,opentest4j,apiguardian-api}.jar)" "$CLAIMS_ROOT"/examples/java/*.java

start_saving_by_hand script_java
export CELL_URL=jdbc:$CELL_URL SHARED_URL=jdbc:$SHARED_URL OTHER_URL=jdbc:$OTHER_URL
# Compiling everything well would take longer than running it.
java=(java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp "$CLAIMS_TMP/java:$DRIVER")
users() { "${java[@]}" Main "$@" 2>&1 || true; }
expect 'sign up' "$(users sign-up ada ada@example.com)" 'saved, id 1'
expect 'the same names again' "$(users sign-up ada ada@example.com)" $'email is taken\nusername is taken'
expect 'rename, and recover' "$(users rename 1 ada countess; users recover)" ''
"${java[@]:0:3}" -jar "$JUNIT" -cp "$CLAIMS_TMP/java:$DRIVER" --scan-classpath "$CLAIMS_TMP/java" --details=tree --disable-banner --disable-ansi-colors
nothing_is_left_by_hand script_java
