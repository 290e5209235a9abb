package config

import "testing"

// TestUserTextsAllocates keeps the look at a server without credentials of callers, which each
// request makes, free of garbage.
func TestUserTextsAllocates(t *testing.T) {
	s := &Server{Headers: map[string]Secret{"X-Team": "blue"}}
	if n := testing.AllocsPerRun(100, func() {
		if names := s.UserTexts(); names != nil {
			t.Fatal(names)
		}
	}); n != 0 {
		t.Errorf("UserTexts allocates %v times", n)
	}
}
