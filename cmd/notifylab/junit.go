package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"notifylab/internal/scenario"
)

// A judged is one thing that was judged, as a CI's reports have it.
type judged struct {
	suite, name string
	status      scenario.Status
	why         string // it did not hold or is inconclusive, in a line
	details     string // what was found and how it came about, in lines
	elapsedMS   int64
	facts       [][2]string // name and value
}

// A junit is a JUnit report: a file of XML that CI systems read. Its elements are
// those of the schema that Jenkins publishes with its xUnit plugin.
type junit struct {
	path string
	file *os.File // beside it, until it is whole
}

// openJUnit begins a report, so that one that can't be written is known before the
// first scenario. Without a path there is none.
func openJUnit(path string) (*junit, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".junit-")
	if err == nil {
		var info os.FileInfo
		if info, err = os.Stat(path); err == nil && info.IsDir() {
			err = errors.New("is a directory")
		} else if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
	if err != nil {
		return nil, usagef("--junit %q: can't be written: %w", path, reasonOf(err))
	}
	return &junit{path, f}, nil
}

func reasonOf(err error) error {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

type (
	xmlSuites struct {
		XMLName xml.Name   `xml:"testsuites"`
		Suites  []xmlSuite `xml:"testsuite"`
	}
	xmlSuite struct {
		Name     string    `xml:"name,attr"`
		Tests    int       `xml:"tests,attr"`
		Failures int       `xml:"failures,attr"`
		Errors   int       `xml:"errors,attr"`
		Time     string    `xml:"time,attr"`
		Cases    []xmlCase `xml:"testcase"`
	}
	xmlCase struct {
		Class      string         `xml:"classname,attr"`
		Name       string         `xml:"name,attr"`
		Time       string         `xml:"time,attr"`
		Properties *xmlProperties `xml:"properties"`
		Failure    *xmlWhy        `xml:"failure"`
		Error      *xmlWhy        `xml:"error"`
	}
	xmlProperties struct {
		All []xmlProperty `xml:"property"`
	}
	xmlProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	xmlWhy struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// close writes the report: what did not hold is a failure, what is inconclusive an
// error, a suite for each that there is among them. An old report is replaced as a
// whole.
func (j *junit) close(all []judged) error {
	if j == nil {
		return nil
	}
	text, err := xml.MarshalIndent(suites(all), "", "  ")
	if err == nil {
		_, err = j.file.WriteString(xml.Header + string(text) + "\n")
	}
	err = errors.Join(err, j.file.Chmod(0o644), j.file.Close())
	if err == nil {
		err = os.Rename(j.file.Name(), j.path)
	}
	if err != nil {
		_ = os.Remove(j.file.Name())
		return fmt.Errorf("write the report %s: %w", j.path, reasonOf(err))
	}
	return nil
}

func suites(all []judged) xmlSuites {
	var s xmlSuites
	elapsed := map[string]int64{}
	for _, c := range all {
		if len(s.Suites) == 0 || s.Suites[len(s.Suites)-1].Name != c.suite {
			s.Suites = append(s.Suites, xmlSuite{Name: c.suite})
		}
		suite := &s.Suites[len(s.Suites)-1]
		x := xmlCase{Class: "notifylab." + c.suite, Name: c.name, Time: seconds(c.elapsedMS)}
		if len(c.facts) > 0 {
			x.Properties = &xmlProperties{}
		}
		for _, f := range c.facts {
			x.Properties.All = append(x.Properties.All, xmlProperty{f[0], f[1]})
		}
		switch why := (&xmlWhy{c.why, c.details}); c.status {
		case scenario.NotHeld:
			x.Failure = why
			suite.Failures++
		case scenario.Inconclusive:
			x.Error = why
			suite.Errors++
		}
		suite.Cases = append(suite.Cases, x)
		suite.Tests++
		elapsed[c.suite] += c.elapsedMS
		suite.Time = seconds(elapsed[c.suite])
	}
	return s
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }
