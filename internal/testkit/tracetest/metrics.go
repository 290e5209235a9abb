package tracetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Point is a data point as a collector reads it.
type Point struct {
	Unit, Kind string // the kind is "counter", "gauge", "histogram" or "summary"
	Value      float64
	Count      uint64
	Buckets    []uint64 // counts between the bounds, and above the last one
	Bounds     []float64
}

type (
	metricsRequest struct {
		ResourceMetrics []struct {
			Resource struct {
				Attributes []attribute `json:"attributes"`
			} `json:"resource"`
			ScopeMetrics []struct {
				Scope struct {
					Name string `json:"name"`
				} `json:"scope"`
				Metrics []wireMetric `json:"metrics"`
			} `json:"scopeMetrics"`
		} `json:"resourceMetrics"`
	}
	wireMetric struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Unit        string `json:"unit"`
		Gauge       *struct {
			DataPoints []wirePoint `json:"dataPoints"`
		} `json:"gauge"`
		Sum *struct {
			DataPoints             []wirePoint `json:"dataPoints"`
			AggregationTemporality int         `json:"aggregationTemporality"`
			IsMonotonic            bool        `json:"isMonotonic"`
		} `json:"sum"`
		Histogram *struct {
			DataPoints             []wireBuckets `json:"dataPoints"`
			AggregationTemporality int           `json:"aggregationTemporality"`
		} `json:"histogram"`
		Summary *struct {
			DataPoints []wireQuantiles `json:"dataPoints"`
		} `json:"summary"`
	}
	pointHead struct {
		Attributes        []attribute `json:"attributes"`
		StartTimeUnixNano string      `json:"startTimeUnixNano"`
		TimeUnixNano      string      `json:"timeUnixNano"`
	}
	wirePoint struct {
		pointHead
		AsDouble *float64 `json:"asDouble"`
	}
	wireBuckets struct {
		pointHead
		Count          string    `json:"count"`
		Sum            float64   `json:"sum"`
		BucketCounts   []string  `json:"bucketCounts"`
		ExplicitBounds []float64 `json:"explicitBounds"`
	}
	wireQuantiles struct {
		pointHead
		Count          string  `json:"count"`
		Sum            float64 `json:"sum"`
		QuantileValues []struct {
			Quantile float64         `json:"quantile"`
			Value    json.RawMessage `json:"value"` // a number, or "NaN"
		} `json:"quantileValues"`
	}
)

// Points returns the data points of the newest export, by the metric's name and its attributes: name{key=value,…}.
func (c *Collector) Points() map[string]Point {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.points)
}

// Exports returns how many exports of metrics there were.
func (c *Collector) Exports() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exports
}

func decodeMetrics(raw []byte) (map[string]Point, error) {
	var in metricsRequest
	if err := strict(raw, &in); err != nil {
		return nil, err
	}
	all := points{}
	for _, resource := range in.ResourceMetrics {
		of, err := attributes(resource.Resource.Attributes)
		if err != nil || of["service.name"] == "" || of["service.instance.id"] == "" {
			return nil, fmt.Errorf("the resource %v: %w", of, err)
		}
		for _, scope := range resource.ScopeMetrics {
			for i := range scope.Metrics {
				if err := all.metric(&scope.Metrics[i]); err != nil {
					return nil, fmt.Errorf("metric %q: %w", scope.Metrics[i].Name, err)
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("an export without metrics")
	}
	return all, nil
}

type points map[string]Point

func (all points) metric(m *wireMetric) error {
	kinds := 0
	if m.Gauge != nil {
		kinds++
		for _, p := range m.Gauge.DataPoints {
			if err := all.add(m, &p.pointHead, false, Point{Kind: "gauge", Value: *p.AsDouble}); err != nil {
				return err
			}
		}
	}
	if m.Sum != nil {
		kinds++
		for _, p := range m.Sum.DataPoints {
			if err := all.add(m, &p.pointHead, true, Point{Kind: "counter", Value: *p.AsDouble}); err != nil || !m.Sum.IsMonotonic || m.Sum.AggregationTemporality != 2 {
				return fmt.Errorf("a sum that is not cumulative: %w", err)
			}
		}
	}
	if m.Histogram != nil {
		kinds++
		for _, p := range m.Histogram.DataPoints {
			out := Point{Kind: "histogram", Value: p.Sum, Bounds: p.ExplicitBounds}
			var err error
			if out.Count, err = strconv.ParseUint(p.Count, 10, 64); err != nil {
				return err
			}
			sum := uint64(0)
			for _, text := range p.BucketCounts {
				n, err := strconv.ParseUint(text, 10, 64)
				if err != nil {
					return err
				}
				out.Buckets = append(out.Buckets, n)
				sum += n
			}
			if err := all.add(m, &p.pointHead, true, out); err != nil || sum != out.Count || len(out.Buckets) != len(out.Bounds)+1 || !slices.IsSorted(out.Bounds) || m.Histogram.AggregationTemporality != 2 {
				return fmt.Errorf("%+v: %w", out, err)
			}
		}
	}
	if m.Summary != nil {
		kinds++
		for _, p := range m.Summary.DataPoints {
			count, err := strconv.ParseUint(p.Count, 10, 64)
			if err != nil {
				return err
			}
			if err := all.add(m, &p.pointHead, true, Point{Kind: "summary", Value: p.Sum, Count: count}); err != nil {
				return err
			}
		}
	}
	if kinds != 1 || m.Name == "" || m.Description == "" {
		return fmt.Errorf("%d kinds of data, or no name or description", kinds)
	}
	return nil
}

func (all points) add(m *wireMetric, head *pointHead, sums bool, p Point) error {
	of, err := attributes(head.Attributes)
	if err != nil {
		return err
	}
	now, err := at(head.TimeUnixNano)
	if err != nil {
		return err
	}
	if began, err := at(head.StartTimeUnixNano); sums && (err != nil || began.After(now)) || !sums && head.StartTimeUnixNano != "" {
		return fmt.Errorf("it counts since %q: %w", head.StartTimeUnixNano, err)
	}
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		labels = append(labels, key+"="+of[key])
	}
	name := m.Name + "{" + strings.Join(labels, ",") + "}"
	if _, twice := all[name]; twice {
		return fmt.Errorf("%s is there twice", name)
	}
	p.Unit = m.Unit
	all[name] = p
	return nil
}
