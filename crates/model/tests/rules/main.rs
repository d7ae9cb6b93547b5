//! The tests that have one file each, in one program: compiling and linking a program for each took longer than the tests.

mod batch;
mod breaker;
mod capture;
mod epochs;
mod fleet;
mod forgotten_types;
mod json;
mod low_water;
mod observed;
mod outgoing;
mod outgoing_batch;
mod overtaking;
mod places_asked;
mod record_json;
mod refused;
mod source_ids;
mod waiting_queue;
mod whole_cell;

#[test]
fn every_file_is_in_this_program() {
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap_or(&name);
        let is_listed = include_str!("main.rs").contains(&format!("\nmod {module};\n"));
        assert!(module == "main" || is_listed, "{name} is not run");
    }
}
