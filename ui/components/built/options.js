// Built by make scripts: change the modules.
var n="heedmap-options";function o(e){let t=window;return t[e]??=new Map}function u({data:e}){let t=o("heedmapOptions");return t.set(e.instance,e),window.dispatchEvent(new CustomEvent(n,{detail:e.instance})),()=>{t.get(e.instance)===e&&t.delete(e.instance)}}export{u as default};
