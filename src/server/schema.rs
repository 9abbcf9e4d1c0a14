//! The JSON Schema that a handler's payloads must fit.
//!
//! It is read and compiled with the config, so that a bad one is refused then and not at the first
//! task. References lead nowhere but into the same file and the drafts of the standard: nothing is
//! ever fetched.

use crate::config::read_file;
use crate::kernel::text::Text;
use jsonschema::Validator;
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Largest file of a schema.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Bytes of what was expected that a refusal repeats.
const EXPECTED_BYTES_MAX: usize = 300;

/// Bytes of a place in a payload that a refusal repeats.
const PLACE_BYTES_MAX: usize = 200;

/// A schema, ready to judge payloads. Clones share it.
#[derive(Clone)]
pub(crate) struct Schema(Arc<Validator>);

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Schema")
    }
}

impl Schema {
    /// Reads a file of at most 1 MiB. The refusal names the file.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let about = |why: String| format!("the schema {}: {why}", path.display());
        let text = read(path).map_err(about)?;
        let schema: Value = serde_json::from_str(&text)
            .map_err(|error| about(format!("it is not valid JSON: {error}")))?;
        Self::of(&schema).map_err(about)
    }

    fn of(schema: &Value) -> Result<Self, String> {
        let validator = jsonschema::options().offline().build(schema).map_err(|error| {
            let said = error.to_string();
            format!("it is no schema, at `{}`: {}", error.instance_path(), clipped(&said))
        })?;
        Ok(Self(Arc::new(validator)))
    }

    /// Passes a payload that fits, or says where it does not, and what was expected there.
    pub(crate) fn check(&self, payload: &str) -> Result<(), String> {
        let value: Value = serde_json::from_str(payload)
            .map_err(|error| format!("the payload cannot be held against its schema: {error}"))?;
        let Err(error) = self.0.validate(&value) else { return Ok(()) };
        let place = error.instance_path().to_string();
        let place = Text::clipped(&place, PLACE_BYTES_MAX).escape_debug().to_string();
        let at = if place.is_empty() { "its top".to_owned() } else { format!("`{place}`") };
        let expected = error.masked_with("it").to_string();
        Err(format!("the payload does not fit its schema at {at}: {}", clipped(&expected)))
    }
}

fn clipped(said: &str) -> Text {
    Text::clipped(said, EXPECTED_BYTES_MAX)
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = read_file(path, FILE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|error| format!("cannot read it: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(schema: &Value, payload: &str) -> String {
        Schema::of(schema).unwrap().check(payload).unwrap_err()
    }

    #[test]
    fn a_payload_that_does_not_fit_is_refused_with_place_and_expectation() {
        let schema = json!({
            "type": "object",
            "properties": {"rows": {"items": {"type": "integer"}}},
            "required": ["rows"],
        });
        assert_eq!(Schema::of(&schema).unwrap().check(r#"{"rows":[1,2]}"#), Ok(()));
        assert_eq!(
            refusal(&schema, r#"{"rows":[1,"x"]}"#),
            "the payload does not fit its schema at `/rows/1`: it is not of type \"integer\""
        );
        assert_eq!(
            refusal(&schema, "{}"),
            "the payload does not fit its schema at its top: \"rows\" is a required property"
        );
        assert!(refusal(&schema, "1e999").contains("number out of range"));
    }

    #[test]
    fn a_refusal_is_short_however_large_the_payload() {
        let key = "k\n".repeat(10_000);
        let payload = json!({ key: "v".repeat(100_000) }).to_string();
        let schema = json!({"additionalProperties": {"type": "integer"}});
        assert!(refusal(&schema, &payload).len() < 1000);
        assert!(refusal(&json!({"additionalProperties": false}), &payload).len() < 1000);
        assert!(refusal(&json!({"const": "x".repeat(10_000)}), &payload).len() < 1000);
    }

    #[test]
    fn what_is_no_schema_or_leads_elsewhere_is_refused() {
        for bad in [
            json!({"type": "integr"}),
            json!({"$ref": "https://example.com/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"$ref": "#/no/such"}),
            json!({"pattern": "("}),
            json!([]),
        ] {
            assert!(Schema::of(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn references_that_lead_in_a_circle_end() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"allOf": [{"$ref": "#"}]}),
            json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
            json!({"$dynamicRef": "#meta", "$dynamicAnchor": "meta"}),
            json!({"not": {"$ref": "#"}}),
        ] {
            if let Ok(schema) = Schema::of(&schema) {
                drop(schema.check(r#"{"a":[1]}"#));
            }
        }
        let tree = json!({"properties": {"child": {"$ref": "#"}}, "additionalProperties": false});
        assert_eq!(Schema::of(&tree).unwrap().check(r#"{"child":{"child":{}}}"#), Ok(()));
        assert!(refusal(&tree, r#"{"child":{"x":1}}"#).contains("`/child`"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Schema::read(path).unwrap_err();
        let none = dir.path().join("none.json");
        assert!(refused(&none).contains("none.json: cannot open it"));
        assert!(refused(dir.path()).ends_with("it is not a file"));
    }
}
