package strict

import "reflect"

// Equal compares by value; an empty list or mapping is the Equal as none, unless the table of keys says
// otherwise.
func Equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Struct:
		for i := range a.NumField() {
			if !a.Type().Field(i).IsExported() {
				continue // derived from other keys
			}
			if !Equal(a.Field(i), b.Field(i)) {
				return false
			}
			if f := a.Type().Field(i); f.Tag.Get("empty") == string(EmptyNone) && a.Field(i).IsNil() != b.Field(i).IsNil() {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Map:
		if a.Len() == 0 && b.Len() == 0 {
			return true
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
