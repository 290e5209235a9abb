package demo

import (
	"fmt"
	"strings"
	"time"
)

const notesInstructions = "A notebook in memory. Write with create_note, find with search_notes or list_notes, " +
	"read the whole text with read_note. Notes are lost when the server stops."

// notes is the server around a notebook.
type notes struct {
	book   *notebook
	server *server
}

// newNotes builds the notes server with three notes in it to find.
func newNotes(now func() time.Time) *server {
	n := &notes{book: newNotebook(now), server: newServer("notes", "Notes", notesInstructions)}
	n.addTools()
	n.server.read = n.readResource
	n.server.templates = []resourceTemplate{{
		Name:        "note",
		Title:       "Note by id",
		Description: "The full text of one note as Markdown.",
		URITemplate: noteURI("{id}"),
		MIMEType:    "text/markdown",
	}}
	n.server.prompts["summarize_notes"] = prompt{
		Name:        "summarize_notes",
		Title:       "Summarize notes",
		Description: "Asks for a short summary of the notes with a tag, or of all notes.",
		Arguments: []promptArgument{
			{Name: "tag", Title: "Tag", Description: "Only notes with this tag; all notes if left out."},
			{Name: "audience", Title: "Audience", Description: "Who the summary is for, such as a new colleague."},
		},
		get: n.summarize,
	}
	for _, seed := range []createNoteArgs{
		{"Welcome", "These notes live in the memory of the demo server.\nWrite one with create_note.", []string{"help"}},
		{"Groceries", "- oat milk\n- rye bread\n- two lemons", []string{"home", "list"}},
		{"Release checklist", "1. run the tests\n2. write the changelog\n3. tag the commit\n4. tell the users", []string{"work", "list"}},
	} {
		// An empty notebook has room for three notes.
		if created, err := n.book.create(seed.Title, seed.Text, seed.Tags); err == nil {
			n.publish(created)
		}
	}
	return n.server
}

type createNoteArgs struct {
	Title string   `json:"title" jsonschema:"short title of the note, one line"`
	Text  string   `json:"text" jsonschema:"the note itself, plain text or Markdown"`
	Tags  []string `json:"tags,omitempty" jsonschema:"words to find the note by, such as work or recipe"`
}

type listNotesArgs struct {
	Tag   string `json:"tag,omitempty" jsonschema:"only notes with this tag"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many notes to return at most; 20 if left out"`
}

type searchNotesArgs struct {
	Query string `json:"query" jsonschema:"words that must all occur in the note's title, text or tags"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many notes to return at most; 20 if left out"`
}

type noteIDArgs struct {
	ID string `json:"id" jsonschema:"identifier of the note as create_note, list_notes and search_notes return it, such as n1"`
}

type deletedNote struct {
	Deleted string `json:"deleted" jsonschema:"identifier of the note that was deleted"`
	Title   string `json:"title"`
}

func (n *notes) addTools() {
	add(n.server, tool{
		"create_note", "Create a note", adds(),
		"Write a new note with a title, a text and optional tags. Returns the note with its id.",
	}, func(in createNoteArgs) (note, error) {
		created, err := n.book.create(in.Title, in.Text, in.Tags)
		if err != nil {
			return note{}, err
		}
		n.publish(created)
		return created, nil
	}, length("title", 1, maxNoteTitle), length("text", 1, maxNoteText),
		length("tags", 0, maxNoteTags), length("tags[]", 1, maxNoteTag))
	add(n.server, tool{
		"list_notes", "List notes", reads(),
		"List notes, newest first, optionally only those with a tag.",
	}, func(in listNotesArgs) (resultRows[note], error) {
		return resultRows[note]{n.book.list(in.Tag, orDefault(in.Limit, 20))}, nil
	}, length("tag", 0, maxNoteTag), between("limit", 1, 100))
	add(n.server, tool{
		"search_notes", "Search notes", reads(),
		"Find notes by words in their title, text or tags. All words must occur; case does not matter. Newest first.",
	}, func(in searchNotesArgs) (resultRows[note], error) {
		return resultRows[note]{n.book.search(in.Query, orDefault(in.Limit, 20))}, nil
	}, length("query", 1, 200), between("limit", 1, 100))
	add(n.server, tool{
		"read_note", "Read a note", reads(),
		"Read the whole text, tags and creation time of one note by its id.",
	}, func(in noteIDArgs) (note, error) {
		return n.book.read(in.ID)
	}, length("id", 1, 32))
	add(n.server, tool{
		"delete_note", "Delete a note", destroys(),
		"Delete one note for good by its id. There is no undo.",
	}, func(in noteIDArgs) (deletedNote, error) {
		gone, err := n.book.remove(in.ID)
		if err != nil {
			return deletedNote{}, err
		}
		n.server.removeResource(noteURI(gone.ID))
		return deletedNote{Deleted: gone.ID, Title: gone.Title}, nil
	}, length("id", 1, 32))
}

// publish makes a note show up in the list of resources; clients are notified of the change.
func (n *notes) publish(created note) {
	n.server.addResource(resource{
		URI:         noteURI(created.ID),
		Name:        created.ID,
		Title:       created.Title,
		Description: "A note" + tagged(created.Tags) + ".",
		MIMEType:    "text/markdown",
	})
}

func noteURI(id string) string { return "note://" + id }

func tagged(tags []string) string {
	if len(tags) == 0 {
		return ""
	}
	return " tagged " + strings.Join(tags, ", ")
}

// readResource returns the note with a URI, false if there is none.
func (n *notes) readResource(uri string) (contents, bool) {
	id, ok := strings.CutPrefix(uri, noteURI(""))
	if !ok {
		return contents{}, false
	}
	found, err := n.book.read(id)
	if err != nil {
		return contents{}, false
	}
	return noteContents(found), true
}

func noteContents(n note) contents {
	return contents{URI: noteURI(n.ID), MIMEType: "text/markdown", Text: markdown(n)}
}

func markdown(n note) string {
	return fmt.Sprintf("# %s\n\n%s\n", n.Title, strings.TrimRight(n.Text, "\n"))
}

// summarize returns the prompt: the request, and the notes as embedded resources.
func (n *notes) summarize(arguments map[string]string) promptResult {
	tag, audience := arguments["tag"], arguments["audience"]
	if audience == "" {
		audience = "me"
	}
	chosen := n.book.list(tag, 50)
	messages := []promptMessage{{Role: "user", Content: textContent(fmt.Sprintf(
		"Summarize the following %d notes for %s in at most five sentences. Name open tasks first.", len(chosen), audience))}}
	for _, c := range chosen {
		messages = append(messages, promptMessage{Role: "user", Content: map[string]any{"type": "resource", "resource": noteContents(c)}})
	}
	return promptResult{Description: "Summary of notes" + tagged(cleanTags([]string{tag})), Messages: messages}
}

// orDefault gives value, or fallback for an argument that was left out.
func orDefault(value, fallback int) int {
	if value == 0 {
		return fallback
	}
	return value
}
