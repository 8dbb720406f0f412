//! The long list of a request, such as its messages, read together with the request.
//!
//! Each element is read when its bytes are reached. So no byte of it is scanned twice to find where it ends. A flaw of
//! an element does not stop the scan: a body that is not JSON is told as such, wherever it breaks.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::read::{Fields, MAX_ELEMENTS, Object, Text, no_object, too_many_elements};
use crate::bad_request::Flaw;

/// Takes the elements of a list.
pub(crate) trait TakeElements<'a> {
    /// A list begins. If the field is repeated, the elements so far do not count.
    fn begin(&mut self);

    /// Takes the next element.
    fn take(&mut self, index: usize, element: &mut Object<'a>) -> Result<(), Flaw>;
}

/// How many elements a list has, or what is wrong with it. `None` if it is absent or null.
pub(crate) type ListRead = Option<Result<usize, Flaw>>;

/// Reads text that may not be JSON as an object. The elements of the list in the field `name` go to `taker`, and the
/// object does not have that field.
pub(crate) fn object_with_list<'a>(
    text: &'a str,
    name: &str,
    taker: &mut impl TakeElements<'a>,
) -> Result<(Object<'a>, ListRead), Flaw> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Body { name, taker }.deserialize(&mut deserializer);
    let (fields, list) = read.and_then(|read| deserializer.end().map(|()| read)).map_err(|error| no_object(&error))?;
    Ok((Object::of(fields)?, list))
}

struct Body<'n, 't, T> {
    name: &'n str,
    taker: &'t mut T,
}

impl<'de, T: TakeElements<'de>> DeserializeSeed<'de> for Body<'_, '_, T> {
    type Value = (Fields<'de>, ListRead);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: TakeElements<'de>> Visitor<'de> for Body<'_, '_, T> {
    type Value = (Fields<'de>, ListRead);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut fields, mut list) = (Fields::into(Vec::with_capacity(8)), None);
        while let Some(Text(key)) = map.next_key()? {
            if key == self.name {
                list = map.next_value_seed(List(&mut *self.taker))?;
            } else {
                fields.read(key, &mut map)?;
            }
        }
        Ok((fields, list))
    }
}

/// Accepts values of every type, so that only text that is not JSON is an error of the deserializer.
macro_rules! accept_others {
    ($value:ty, $other:expr) => {
        type Value = $value;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }

        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($other)
        }

        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($other)
        }

        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($other)
        }

        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($other)
        }

        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($other)
        }
    };
}

struct List<'t, T>(&'t mut T);

impl<'de, T: TakeElements<'de>> DeserializeSeed<'de> for List<'_, T> {
    type Value = ListRead;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: TakeElements<'de>> Visitor<'de> for List<'_, T> {
    accept_others!(ListRead, Some(Err(no_array())));

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Some(Err(no_array())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        self.0.begin();
        let mut memory = Vec::with_capacity(8);
        let mut flaw = None;
        let mut count = 0;
        while count < MAX_ELEMENTS && flaw.is_none() {
            let Some(fields) = seq.next_element_seed(Element(std::mem::take(&mut memory)))? else {
                return Ok(Some(Ok(count)));
            };
            let object = fields.ok_or_else(|| Flaw::new("must be an object")).and_then(Object::of);
            match object.and_then(|mut object| self.0.take(count, &mut object).map(|()| object)) {
                Ok(object) => memory = object.into_memory(),
                Err(found) => flaw = Some(found.element(count)),
            }
            count += 1;
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(Some(match flaw {
            _ if count > MAX_ELEMENTS => Err(too_many_elements()),
            Some(flaw) => Err(flaw),
            None => Ok(count),
        }))
    }
}

fn no_array() -> Flaw {
    Flaw::new("must be an array")
}

/// The fields of one element. `None` if it is no object.
struct Element<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> DeserializeSeed<'de> for Element<'de> {
    type Value = Option<Fields<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'de> {
    accept_others!(Option<Fields<'de>>, None);

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::into(self.0);
        while let Some(Text(key)) = map.next_key()? {
            fields.read(key, &mut map)?;
        }
        Ok(Some(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the field `a` of each element.
    #[derive(Default)]
    struct Names(Vec<String>);

    impl TakeElements<'_> for Names {
        fn begin(&mut self) {
            self.0.clear();
        }

        fn take(&mut self, _: usize, element: &mut Object<'_>) -> Result<(), Flaw> {
            self.0.push(element.take_name("a")?.into_owned());
            Ok(())
        }
    }

    fn read(text: &str) -> Result<(Vec<String>, ListRead), Flaw> {
        let mut names = Names::default();
        let (_, list) = object_with_list(text, "list", &mut names)?;
        Ok((names.0, list))
    }

    fn flaw(list: ListRead) -> String {
        format!("{:?}", list.unwrap().unwrap_err())
    }

    #[test]
    fn elements_come_in_order_and_the_last_list_counts() {
        let (names, list) =
            read(r#"{"list":[{"a":"w"}], "b":1, "list" : [ {"a":"x","c":[{}]}, {"c":null,"a":"y"} ]}"#).unwrap();
        assert_eq!(names, ["x", "y"]);
        assert_eq!(list.unwrap().unwrap(), 2);
    }

    #[test]
    fn the_other_fields_stay_in_the_object() {
        let (mut object, list) =
            object_with_list(r#"{"a":1,"list":[],"b":null}"#, "list", &mut Names::default()).unwrap();
        assert_eq!(list.unwrap().unwrap(), 0);
        assert_eq!(object.take("a").unwrap().get(), "1");
        assert!(object.take("b").is_none() && object.take("list").is_none());
    }

    #[test]
    fn a_flaw_names_the_element_and_broken_json_comes_before_it() {
        for (list, expected) in [
            (r#"[{"a":"x"},{"a":1},{"a":2}]"#, "[1].a"),
            (r#"[7,{"a":"x"}]"#, "[0]"),
            (r#"[{"a":"x"},[[]]]"#, "[1]"),
            (r#"[null]"#, "must be an object"),
            (r#"{"a":[1]}"#, "must be an array"),
            (r#""text""#, "must be an array"),
        ] {
            assert!(flaw(read(&format!(r#"{{"list":{list}}}"#)).unwrap().1).contains(expected), "{list}");
            assert!(format!("{:?}", read(&format!(r#"{{"list":{list},"#)).unwrap_err()).contains("not valid JSON"));
        }
        assert!(format!("{:?}", read("[]").unwrap_err()).contains("must be a JSON object"));
        assert!(format!("{:?}", read("{} x").unwrap_err()).contains("not valid JSON"));
    }

    #[test]
    fn a_list_that_is_null_is_absent() {
        assert!(read(r#"{"list":null}"#).unwrap().1.is_none());
        assert!(read("{}").unwrap().1.is_none());
    }

    #[test]
    fn a_list_with_too_many_elements_is_refused() {
        let list = |count| format!(r#"{{"list":[{}]}}"#, vec![r#"{"a":"x"}"#; count].join(","));
        assert_eq!(read(&list(MAX_ELEMENTS)).unwrap().1.unwrap().unwrap(), MAX_ELEMENTS);
        assert!(flaw(read(&list(MAX_ELEMENTS + 1)).unwrap().1).contains("more than"));
    }
}
