//! Man pages and shell completions, made from the definitions of the arguments.

use clap::{Command, ValueEnum};
use std::io;

/// A shell that completes what is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU Bash.
    Bash,
    /// Fish.
    Fish,
    /// Z shell.
    Zsh,
}

/// The script that makes `shell` complete the arguments of a program.
pub fn completions(mut program: Command, shell: Shell) -> String {
    let name = program.get_name().to_owned();
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Fish => clap_complete::Shell::Fish,
        Shell::Zsh => clap_complete::Shell::Zsh,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The man page of a program, or of one of its commands; `None` when it has no such command.
pub fn man(mut program: Command, command: Option<&str>) -> io::Result<Option<String>> {
    program.build(); // each command then knows its whole name
    let page = match command {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(found) => found.clone(),
            None => return Ok(None),
        },
    };
    let mut roff = Vec::new();
    clap_mangen::Man::new(page).render(&mut roff)?;
    Ok(Some(String::from_utf8_lossy(&roff).into_owned()))
}
