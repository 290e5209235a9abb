package rawjson

import (
	"bytes"
	"strings"
)

// common are the letters of English and of JSON keys, the rarest first. A byte that is not in it
// counts as rarer.
const common = "zqxjkvbpygfwmu-:/.,cldrhsnioate\" "

// Contains is bytes.Contains for data that may be long and in which word is seldom. It searches for
// the rarest byte of word. bytes.Contains searches for the first one, which for most keys is a
// letter that stands in every word of a text, and falls back to a slow search.
func Contains(data []byte, word string) bool {
	at, rarest := 0, len(common)
	for i := range len(word) {
		if n := strings.IndexByte(common, word[i]); n < rarest {
			at, rarest = i, n
		}
	}
	if rarest == len(common) || len(data) < len(word) {
		return bytes.Contains(data, []byte(word))
	}
	end := len(data) - len(word) + at + 1 // of the places where that byte may be
	for i, misses := at, 0; i < end; i++ {
		n := bytes.IndexByte(data[i:end], word[at])
		if n < 0 {
			return false
		}
		i += n
		if string(data[i-at:i-at+len(word)]) == word {
			return true
		}
		if misses++; misses > 8+i/64 {
			return bytes.Contains(data[i-at:], []byte(word)) // the byte is frequent here
		}
	}
	return false
}
