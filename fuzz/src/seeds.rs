//! Writes the first inputs of every target to `seeds/` beside the manifest.

use std::fs;
use std::path::Path;

fn main() -> std::io::Result<()> {
    for (name, _, seeds) in midwatch_fuzz::TARGETS {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
        fs::create_dir_all(&dir)?;
        for (seed, bytes) in seeds() {
            fs::write(dir.join(seed), bytes)?;
        }
    }
    Ok(())
}
