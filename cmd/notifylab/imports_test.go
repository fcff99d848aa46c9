package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// moduleDir is the top of the module, seen from this package's tests.
const moduleDir = "../.."

// mayImport has a row for every package of the module: which others it may
// import. Tests may import what they like.
func mayImport() map[string][]string {
	const (
		api       = "internal/api"
		bench     = "internal/bench"
		broker    = "internal/broker"
		event     = "internal/event"
		idem      = "internal/idem"
		lab       = "internal/lab"
		notify    = "internal/notify"
		passes    = "internal/passes"
		provider  = "internal/provider"
		rounds    = "internal/rounds"
		scenario  = "internal/scenario"
		servers   = "internal/servers"
		supervise = "internal/supervise"
		worker    = "internal/worker"
	)
	most := []string{worker, broker, idem, lab, provider, supervise, servers, passes, event, notify}
	return map[string][]string{
		"cmd/notifylab":                append([]string{scenario, api, bench}, most...),
		scenario:                       most,
		bench:                          most,
		worker:                         {idem, lab, notify, event},
		broker:                         {notify, rounds},
		idem:                           {notify},
		lab:                            {notify, event, rounds},
		provider:                       {notify, event},
		supervise:                      {event},
		servers:                        nil,
		"internal/servers/serverstest": {servers},
		api:                            {broker, idem, lab, notify, event, rounds},
		passes:                         {broker, idem, lab, notify, event},
		event:                          nil,
		rounds:                         nil,
		notify:                         nil,
	}
}

// onlyIn says which packages alone may import a library.
func onlyIn() map[string][]string {
	cmd := []string{"cmd/notifylab"}
	return map[string][]string{
		"github.com/spf13/cobra":            cmd,
		"github.com/spf13/pflag":            cmd,
		"github.com/fatih/color":            cmd,
		"github.com/schollz/progressbar/v3": cmd,
		"github.com/rabbitmq/amqp091-go":    {"internal/broker", "internal/bench"},
		"github.com/redis/go-redis/v9":      {"internal/idem", "internal/lab", "internal/passes", "internal/bench"},
	}
}

func TestSource(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(moduleDir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != moduleDir && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		seen++
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(moduleDir, name)
		if err != nil {
			return err
		}
		for _, f := range faults(files, file, filepath.ToSlash(rel)) {
			t.Error(f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 50 {
		t.Errorf("saw %d Go files: that is not the whole module", seen)
	}
}

// TestSource_faults shows that each check can fail.
func TestSource_faults(t *testing.T) {
	for _, tt := range []struct {
		name, file, source string
		want               []string // part of a fault each
	}{
		{"a package nobody knows", "internal/utils/x.go", ``, []string{"internal/utils has no row"}},
		{"an arrow the wrong way", "internal/notify/x.go", `import "notifylab/internal/event"`, []string{"may not import internal/event"}},
		{"servers know nothing", "internal/servers/x.go", `import "notifylab/internal/notify"`, []string{"may not import internal/notify"}},
		{"nobody imports scenario", "internal/bench/x.go", `import "notifylab/internal/scenario"`, []string{"may not import internal/scenario"}},
		{"test servers are for tests", "cmd/notifylab/x.go", `import "notifylab/internal/servers/serverstest"`, []string{"may not import internal/servers/serverstest"}},
		{"a test imports what it likes", "internal/notify/x_test.go", `import "notifylab/internal/event"`, nil},
		{"flags in a package", "internal/worker/x.go", `import "github.com/spf13/cobra"`, []string{"may not import github.com/spf13/cobra"}},
		{"a part of go-redis", "internal/broker/x.go", `import "github.com/redis/go-redis/v9/maintnotifications"`, []string{"may not import github.com/redis/go-redis/v9"}},
		{"go-redis where it belongs", "internal/lab/x.go", `import "github.com/redis/go-redis/v9"`, nil},
		{"an exit", "internal/worker/x.go", `import "os"; func f() { os.Exit(1) }`, []string{"os.Exit"}},
		{"an exit under another name", "internal/worker/x.go", `import system "os"; func f() { system.Exit(1) }`, []string{"os.Exit"}},
		{"an exit in a command", "cmd/notifylab/x.go", `import "os"; func f() { os.Exit(1) }`, nil},
		{"the test servers' main", "internal/servers/serverstest/x.go", `import "os"; func f() { os.Exit(1) }; var x = 1`, nil},
		{"prints", "internal/idem/x.go", `import "fmt"; func f() { fmt.Println(1); fmt.Printf("x"); println() }`, []string{"fmt.Println", "fmt.Printf", "println"}},
		{"prints into a string", "internal/idem/x.go", `import "fmt"; func f() string { return fmt.Sprint(1) }`, nil},
		{"standard output", "internal/idem/x.go", `import ("fmt"; "os"); func f() { fmt.Fprintln(os.Stdout, 1) }`, []string{"os.Stdout"}},
		{"logs", "internal/idem/x.go", `import "log"; func f() { log.Print(1); log.New(nil, "", 0) }`, []string{"log.Print", "log.New"}},
		{"a logger that says nothing", "internal/idem/x.go", `import ("io"; "log"); func f() *log.Logger { return log.New(io.Discard, "", 0) }`, nil},
		{"structured logs", "internal/idem/x.go", `import "log/slog"; func f() { slog.Info("x") }`, []string{"slog.Info"}},
		{"a sleep", "internal/idem/x.go", `import "time"; func f() { time.Sleep(1) }`, []string{"time.Sleep"}},
		{"a sleep in a test", "cmd/notifylab/x_test.go", `import "time"; func f() { time.Sleep(1) }`, []string{"time.Sleep"}},
		{"state", "internal/idem/x.go", `var cache = map[string]int{}; var x, ErrY int`, []string{"var cache", "var x", "var ErrY"}},
		{"a sentinel", "internal/idem/x.go", `import ("errors"; "fmt"); var errX, ErrY = errors.New("x"), fmt.Errorf("y: %w", errX)`, nil},
		{"an error that is no sentinel", "internal/idem/x.go", `import "errors"; var last = errors.New("x")`, []string{"var last"}},
		{"compiled once", "internal/idem/x.go", `import ("regexp"; "github.com/redis/go-redis/v9"); var r = regexp.MustCompile("x"); var s = redis.NewScript("x")`, nil},
		{"an embedded script", "internal/idem/x.go", "import _ \"embed\"\n//go:embed x.lua\nvar script string", nil},
		{"a promise to the compiler", "internal/idem/x.go", `var _ interface{} = 1`, nil},
		{"state in a function", "internal/idem/x.go", `func f() { var x int; _ = x }`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, tt.file, "package x\n"+tt.source, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			got := faults(files, file, tt.file)
			if len(got) != len(tt.want) {
				t.Fatalf("got %q, want one for each of %q", got, tt.want)
			}
			for i, want := range tt.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("got %q, want %q in it", got[i], want)
				}
			}
		})
	}
}

// faults are what a file has that it may not have. Its name counts from the top
// of the module, with slashes.
func faults(files *token.FileSet, file *ast.File, name string) (found []string) {
	dir := path.Dir(name)
	fault := func(at ast.Node, text string) {
		found = append(found, name+":"+strconv.Itoa(files.Position(at.Pos()).Line)+": "+text)
	}
	isTest := strings.HasSuffix(name, "_test.go")
	packages, known := mayImport()[dir]
	if !known {
		fault(file, dir+" has no row in the table of imports")
	}
	imported := make(map[string]string) // by the name that the file has for it
	for _, spec := range file.Imports {
		library, _ := strconv.Unquote(spec.Path.Value)
		local := path.Base(library)
		if library == "github.com/redis/go-redis/v9" {
			local = "redis"
		}
		if spec.Name != nil {
			local = spec.Name.Name
		}
		imported[local] = library
		if isTest {
			continue
		}
		if own, ok := strings.CutPrefix(library, "notifylab/"); ok && !slices.Contains(packages, own) {
			fault(spec, dir+" may not import "+own)
		}
		for other, where := range onlyIn() {
			if (library == other || strings.HasPrefix(library, other+"/")) && !slices.Contains(where, dir) {
				fault(spec, dir+" may not import "+other)
			}
		}
	}

	// of resolves a selector to what it names of an imported package.
	of := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && imported[x.Name] != "" {
				return imported[x.Name] + "." + s.Sel.Name
			}
		}
		return ""
	}
	quiet := strings.HasPrefix(dir, "internal/") && dir != "internal/servers/serverstest" && !isTest
	loud := regexp.MustCompile(`^(os\.(Exit|Stdout|Stderr)|fmt\.Print.*|log\.[^L].*|log/slog\..*)$`)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if builtin, ok := n.Fun.(*ast.Ident); ok && quiet && (builtin.Name == "print" || builtin.Name == "println") {
				fault(n, builtin.Name+" prints")
			}
			if of(n.Fun) == "log.New" && len(n.Args) > 0 && of(n.Args[0]) == "io.Discard" {
				return false
			}
		case *ast.SelectorExpr:
			switch what := of(n); {
			case what == "time.Sleep":
				fault(n, "time.Sleep doesn't heed a context")
			case quiet && loud.MatchString(what):
				fault(n, what+" is for cmd alone")
			}
		}
		return true
	})
	if !quiet {
		return found
	}

	sentinel := regexp.MustCompile(`^(err|Err)[A-Z]`)
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.VAR {
			continue
		}
		for _, spec := range group.Specs {
			vars := spec.(*ast.ValueSpec)
			if embeds(group.Doc) || embeds(vars.Doc) {
				continue
			}
			for i, v := range vars.Names {
				made := ""
				if i < len(vars.Values) {
					if call, ok := vars.Values[i].(*ast.CallExpr); ok {
						made = of(call.Fun)
					}
				}
				switch {
				case v.Name == "_":
				case made == "regexp.MustCompile", made == "github.com/redis/go-redis/v9.NewScript":
				case sentinel.MatchString(v.Name) && (made == "errors.New" || made == "fmt.Errorf"):
				default:
					fault(v, "var "+v.Name+" is state of the package")
				}
			}
		}
	}
	return found
}

func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool {
		return strings.HasPrefix(c.Text, "//go:embed ")
	})
}
