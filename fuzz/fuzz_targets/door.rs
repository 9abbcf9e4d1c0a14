#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| midwatch_fuzz::door::run(bytes));
